"""Runs that outlive their process: started, put to sleep, continued, settled. Knows no database and no wire."""
