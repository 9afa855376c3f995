"""The code that runs inside one worker process."""
