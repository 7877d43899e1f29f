"""Directives of the assembly format that ODS has no words for, by kind of syntax."""
