"""New bases from a vendor: sources are asked, what they offer is verified, downloaded and begun."""
