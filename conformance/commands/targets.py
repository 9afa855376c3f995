"""targets"""
def add(commands):  # type: ignore
    pass
