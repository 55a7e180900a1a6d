"""Pages in a real Chromium; skipped where there is none."""
