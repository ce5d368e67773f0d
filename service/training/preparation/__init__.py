"""The offline phase: from an uploaded file to artifacts that train."""
