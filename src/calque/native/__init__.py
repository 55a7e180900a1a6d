"""Kernels in C for decoding on an x86-64 CPU, compiled on the user's machine when a model is first loaded.

Every kernel has a version in torch, which is used where there is no C compiler and which the kernel is tested against.
The functions take tensors; nothing here depends on a layer or a model.
"""
