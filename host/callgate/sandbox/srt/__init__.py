"""srt, Anthropic's sandbox-runtime, as a sandbox: `backend.SrtBackend`."""
