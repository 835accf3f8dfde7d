"""Detection of repetition in tapes: unrolled loops become blocks of equal operations again."""
