"""Machine-checked proofs of the limiter's arithmetic (docs/proof.md): ``slewrl prove limits.yaml``."""
