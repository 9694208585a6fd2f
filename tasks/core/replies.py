"""Replies of models that cannot be read. A reply that is not in the format asked for is unscored with a reason, never a
value of its own; it is asked for once more, with the reason, and then costs the row."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A reply that is not in the agreed form."""

    reason: str
    """One clause: what was found, what was expected."""

    def correction(self) -> str:
        """Return what is said to the model on the second attempt."""
        return (
            f"Your last reply could not be read: {self.reason}. "
            "Reply once more, in exactly the form described, with nothing else."
        )
