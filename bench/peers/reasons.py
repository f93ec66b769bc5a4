"""Why a peer is ahead of gradus at a piece of work, and what would change it.  By the name of the work (a * at its end: those that begin
so) or of its group; then by the label of the side, or * for all.  The first that fits is taken."""

REASONS = {
}
