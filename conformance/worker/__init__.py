"""The code that runs inside a worker process: it checks results and writes them to the journal."""
