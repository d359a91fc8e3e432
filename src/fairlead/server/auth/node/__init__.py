"""What a node may do (plugin/pkg/auth/authorizer/node, 1.36).

graph.py      which node needs which objects, because of the pods that are on it
authorizer.py the decision

What a node may write is decided a second time, by content: NodeRestriction (`admission/node_restriction.py`).
"""
