"""Tasks, one file each: the columns a task reads, how batches are formed from them, and the loss.

`interfaces` is the contract with training; users can implement it for tasks of their own outside the package.
"""
