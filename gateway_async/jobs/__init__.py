"""Jobs: batches over a journal, which survive the process that runs them."""
