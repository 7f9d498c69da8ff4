"""The processes of those that single things are measured beside; one file each, and `process`, which runs them."""
