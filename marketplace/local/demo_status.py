"""What the status page of a demonstration shows: one incident that is over and one maintenance, both marked 演示."""

from datetime import datetime, timedelta

from django.db import transaction

from catalog.models import Region
from trust import actions
from trust.models import Incident, Maintenance, Watch

# So that the history bars of a fresh installation are full.
DAYS_ON_RECORD = 120


@transaction.atomic
def seed(*, at: datetime) -> bool:
    """Whether anything was added; where incidents or maintenance exist, nothing is."""
    region = Region.objects.filter(is_default=True).first()
    if region is None or Incident.objects.exists() or Maintenance.objects.exists():
        return False
    Watch.objects.filter(region__enabled=True).update(since=at.date() - timedelta(days=DAYS_ON_RECORD))
    _incident(region, start=at.replace(hour=6, minute=10, second=0, microsecond=0) - timedelta(days=23))
    _maintenance(region, start=at.replace(hour=18, minute=0, second=0, microsecond=0) + timedelta(days=6), at=at)
    return True


def _incident(region: Region, *, start: datetime) -> None:
    incident = actions.open_incident(
        regions=[region],
        title_zh="【演示】部分机柜网络中断",
        title_en="[Demo] Some racks without network",
        impact=Incident.Impact.OUTAGE,
        started_at=start,
        body_zh="部分机器无法登录，正在排查。\n\n本条为演示数据，并非真实故障。",
        body_en="Some machines cannot be reached; we are looking.\n\nThis is demonstration data, not a real incident.",
        actor=None,
        at=start + timedelta(minutes=6),
    )
    actions.update_incident(
        incident_id=incident.pk,
        status=Incident.Status.IDENTIFIED,
        body_zh="已定位：一台汇聚交换机重启，正在切换到备用交换机。",
        body_en="Found: an aggregation switch restarted. We are moving to its spare.",
        actor=None,
        at=start + timedelta(minutes=21),
    )
    end = start + timedelta(minutes=42)
    actions.resolve_incident(
        incident_id=incident.pk,
        ended_at=end,
        body_zh="网络已恢复，受影响的机器均可登录。",
        body_en="The network is back and every affected machine can be reached.",
        actor=None,
        at=end + timedelta(minutes=3),
    )


def _maintenance(region: Region, *, start: datetime, at: datetime) -> None:
    work = Maintenance.objects.create(
        title_zh="【演示】核心交换机升级",
        title_en="[Demo] Core switch upgrade",
        body_zh="窗口内可能有数次不超过一分钟的网络闪断，运行中的任务不受影响。\n\n本条为演示数据。",
        body_en="The network may drop for less than a minute, several times; running jobs go on.\n\n"
        "This is demonstration data.",
        starts_at=start,
        ends_at=start + timedelta(hours=2),
        announced_at=at,
    )
    work.regions.set([region])
