"""Models behind one protocol: what is asked (`model`), and who answers: the official SDKs, a script, a recording."""
