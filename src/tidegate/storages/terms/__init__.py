"""The lease of a storage without locks: numbered terms, and beats that prove that a holder lives."""
