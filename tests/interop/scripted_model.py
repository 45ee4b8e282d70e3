"""fake_messages.py as the connector's tests ask it: which tools it was offered, what they gave back. No test module."""
import fake_messages


class ScriptedModel(fake_messages.Model):
    @property
    def requests(self):
        return [exchange.body for exchange in self.exchanges]

    def tool_results(self):
        """The texts of the tool results that the last request sent back, in order."""
        return fake_messages.tool_results(self.requests[-1]) if self.requests else []
