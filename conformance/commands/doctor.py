"""doctor"""
def add(commands):  # type: ignore
    pass
