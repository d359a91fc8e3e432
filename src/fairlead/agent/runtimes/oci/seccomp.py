"""The profile `RuntimeDefault`: system calls that reach the kernel itself, other processes or the whole machine fail.

They are those that Docker's documentation lists as blocked for a reason; what needs a capability is refused twice.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj

_REFUSED = """
    acct add_key bpf clock_adjtime clock_settime create_module delete_module finit_module fsconfig fsmount fsopen fspick
    get_kernel_syms get_mempolicy init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp
    kexec_file_load kexec_load keyctl lookup_dcookie mbind mount mount_setattr move_mount move_pages name_to_handle_at
    nfsservctl open_by_handle_at open_tree perf_event_open pivot_root process_vm_readv process_vm_writev query_module
    quotactl reboot request_key set_mempolicy setns settimeofday stime swapoff swapon sysfs syslog umount umount2
    unshare uselib userfaultfd ustat vhangup vm86 vm86old
"""
_EPERM: Final = 1


def runtime_default() -> Obj:
    refused = {"names": _REFUSED.split(), "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM}
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]}
