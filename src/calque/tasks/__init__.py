"""Tasks, one file each: which columns of a store a task reads, how it forms batches from them, and its loss.

`interfaces` is the contract with training; users can implement it for tasks of their own outside the package.
"""
