"""The processes of those that single things are measured beside, one file each.

`process` runs them, and contestants, too; `docker_leftovers` is callgate itself, in a process of its own.
"""
