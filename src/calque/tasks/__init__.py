"""What models are trained for, one file per task: what it reads, how batches are made of it, and what is minimised.

`interfaces` is the contract that training knows; a user's own task fulfils it without touching the package.
"""
