"""The jail: one file per kernel facility. What is listed in this folder is what confines a guest.

`namespaces` separation, `root` files that exist, `landlock` files that open, `seccomp` system calls, `capabilities`
privileges, `rlimits` resources; `confine` puts them on in order.
"""
