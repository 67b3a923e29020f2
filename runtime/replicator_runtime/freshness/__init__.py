"""How much of the time the tables are replicated within so many minutes: objectives, the minutes counted, and what follows from them."""
