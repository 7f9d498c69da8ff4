"""The results of a run, for people and programs: verdicts, table, pages, `results.json`, two runs beside each other."""
