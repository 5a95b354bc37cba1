"""Runs a program that dies with its parent: ``die_with_parent.py PARENT_PID PROGRAM ...``.

A pytest that is killed (SIGKILL, out of memory) runs no clean-up. The kernel can do it: with
PR_SET_PDEATHSIG a process gets a signal when its parent ends, and the setting outlives exec.
A small script does this, rather than ``preexec_fn``, because Python code between fork and exec
can deadlock when other threads run.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h

parent, program, *arguments = sys.argv[1:]
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
    sys.exit(f"prctl failed: {os.strerror(ctypes.get_errno())}; this needs Linux")
if os.getppid() != int(parent):
    sys.exit("the parent ended before the program started")
os.execv(program, [program, *arguments])
