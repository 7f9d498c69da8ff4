"""The guest: what runs beside a model's program, inside the sandbox. Standard library only.

A guest reads one JSON-RPC ``execute`` request from its wire, runs the program in it, lets the program call the host's
tools over the same wire, streams what it prints, and answers with the value or the error. It decides nothing about
security: the jail is in place before it reads its first byte, and the host believes nothing it says.

Contract: fd 0 and fd 1 are the wire (see `wire`), fd 2 is read by the host as log output.
"""
