"""Dialogue: from the turns so far to the next one."""
