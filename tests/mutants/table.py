"""Every safety rule of the library, and what the library would look like without it."""

from tests.mutants.hiding import HIDING
from tests.mutants.keeping import KEEPING
from tests.mutants.mutant import SEEDS, Mutant
from tests.mutants.reading import READING
from tests.mutants.recovering import RECOVERING
from tests.mutants.running import RUNNING
from tests.mutants.sending import SENDING
from tests.mutants.sharing import SHARING
from tests.mutants.web import WEB

__all__ = ["MUTANTS", "SEEDS", "Mutant"]

MUTANTS = (*SENDING, *READING, *RUNNING, *RECOVERING, *KEEPING, *HIDING, *SHARING, *WEB)
