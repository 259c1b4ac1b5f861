// Carries the precompiled header of the torch targets.
