"""Every JSON body of the contract."""
