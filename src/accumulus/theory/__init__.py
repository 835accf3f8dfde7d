"""The theory of the notes, standing on the core; its methods are found through `accumulus.methods`."""
