"""repro"""
def add(commands):  # type: ignore
    pass
