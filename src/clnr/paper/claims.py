from clnr.paper.sheet import Sheet


def sheet(scope, library):
    return Sheet("claims", "Claims", ("a",), ((),))
