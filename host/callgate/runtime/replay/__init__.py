"""Programs that do the same again: their events are recorded one by one, and a guest can be given the same ones."""
