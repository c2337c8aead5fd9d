"""The error of this room."""


class AnatomyError(ValueError):
    """The depth axis of a model could not be found; the message says what was found and what to type."""
