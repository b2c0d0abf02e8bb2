"""Answers as notebooks show them: calendars drawn, requests and resources as tables."""

from kalends.contract.bodies import NotebookForm


def _as_html(answer: object) -> str:
    # Imported here because only notebooks need it.
    from kalends.client.notebooks.forms import as_html

    return as_html(answer)


NotebookForm.draw_by(_as_html)
