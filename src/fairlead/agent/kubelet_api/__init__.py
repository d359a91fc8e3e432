"""What a kubelet answers over HTTPS: logs, commands and ports of its containers, its pods and its measurements."""
