"""Tests against real peers. They skip, with the reason, where JUDGES does not name a folder that `.ci/run` filled."""
