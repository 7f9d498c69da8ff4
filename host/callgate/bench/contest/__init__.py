"""Who is compared, how, and how often: environments, processes, rounds, memory."""
