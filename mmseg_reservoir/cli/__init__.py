"""The command ``reservoir``: one file per verb. No other room imports this one."""
