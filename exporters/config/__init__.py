"""What an operator can set: one model a sub-command, each in a module of its own.

Import the module that is needed: an agent on every node loads no more than its own.
"""
