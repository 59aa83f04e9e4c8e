"""Answers as tables: the same ones for the service's CSV and XLSX and for the command line's."""

from tonnage.tabular.forms import CSV, FORMS, XLSX, TabularForm, csv_of, has_tables, workbook_of
from tonnage.tabular.xlsx import xlsx_bytes

__all__ = ["CSV", "FORMS", "XLSX", "TabularForm", "csv_of", "has_tables", "workbook_of", "xlsx_bytes"]
