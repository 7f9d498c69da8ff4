"""What earlier plans teach: outcomes of selections kept in SQLite, advice from them, and A/B tests of strategies."""
