"""Actions on jobs, and their tickets, in tidegate's own shapes."""

from __future__ import annotations

from tidegate.operate import JobClient, TicketState, TicketView
from tidegate.web.places import allowed
from tidegate.web.routing import RouteRequest
from tidegate.web.ticket_shapes import ActionAsked, ActionTicket, AnswerShape, ProgressShape
from tidegate.web.tickets import KINDS, WantedAction


def post_action(asked: RouteRequest) -> ActionTicket:
    """`POST /jobs/:id/actions`."""
    body: ActionAsked = asked.body
    client = asked.site.client(asked.path["job"])
    into = None if body.into is None else allowed(asked.site, body.into)
    wanted = WantedAction(kind=KINDS[body.kind], id=body.id, into=into, format=body.format)
    return action_ticket(client, asked.site.tickets.ask(client, wanted))


def get_action(asked: RouteRequest) -> ActionTicket:
    """`GET /jobs/:id/actions/:ticket`."""
    client = asked.site.client(asked.path["job"])
    return action_ticket(client, asked.site.tickets.look(client, asked.path["ticket"]))


def action_ticket(client: JobClient, view: TicketView) -> ActionTicket:
    """A request as the page shows it."""
    progress = client.progress(view.id) if view.state is TicketState.PENDING else None
    answer = view.answer
    return ActionTicket(
        id=view.id,
        kind=view.kind.value,
        state=view.state.value,
        stage=None if view.stage is None else view.stage.name.lower(),
        waits_for=view.waits_for,
        progress=None if progress is None else ProgressShape(bytes=progress.copied_bytes, of=progress.total_bytes),
        answer=None
        if answer is None
        else AnswerShape(
            outcome=answer.outcome.value,
            detail=answer.detail,
            at=answer.at,
            epochs=answer.epochs,
            savepoint=answer.savepoint,
        ),
    )
