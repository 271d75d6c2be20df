"""The one way to say that something of Ray is not here."""


def not_yet(what: str) -> NotImplementedError:
    """The error for a feature that Ray has and Mobula does not: raised, never swallowed."""
    return NotImplementedError(f"{what} is not in Mobula yet")
