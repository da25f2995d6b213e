//! What operators' commands read, beside a writer in another process or alone.

use std::path::Path;

use orc_domain::event::Event;
use orc_domain::flow::{Flow, FlowHead, FlowSpec};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{ContentHash, FlowId, RequestId, RunId};
use orc_domain::time::Timestamp;
use orc_ports::reader::{
    AnswerCounts, AnyId, FlowFilter, FlowLine, Reader, RequestFilter, RequestRecord, RunRecord, Totals,
};
use orc_ports::store::{Instance, StoreError, StoreResult};

use crate::read::Reads;
use crate::schema::{cannot_open, check_readable, require_file};

/// Reads of one database file.
pub struct SqliteReader {
    reads: Reads,
}

impl SqliteReader {
    /// Opens the database at `path` without ever writing to it.
    ///
    /// # Errors
    /// [`StoreError::Open`] when there is no database, or an older one; [`StoreError::Newer`] for one of a later program.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        require_file(path)?;
        let reads = Reads::new(path);
        let mut connection = reads.pool().acquire().await.map_err(|error| cannot_open(path, error))?;
        check_readable(&mut connection, path).await?;
        drop(connection);
        Ok(Self { reads })
    }

    pub(crate) const fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Closes its connections; dropping does it too, a little later.
    pub async fn close(&self) {
        self.reads.close().await;
    }
}

impl Reader for SqliteReader {
    fn flows(&self, filter: FlowFilter, before: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowLine>> {
        Box::pin(self.reads.flows(filter, before, limit))
    }

    fn flows_finished(
        &self,
        before: Timestamp,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> StoreResult<'_, Vec<(FlowSpec, FlowHead)>> {
        Box::pin(self.reads.flows_finished(before, after, limit))
    }

    fn flow(&self, id: FlowId) -> StoreResult<'_, Option<Flow>> {
        Box::pin(async move { Ok(self.reads.flow_load(id).await?.map(|loaded| loaded.flow)) })
    }

    fn flow_head(&self, id: FlowId) -> StoreResult<'_, Option<(FlowSpec, FlowHead)>> {
        Box::pin(self.reads.flow_head(id))
    }

    fn runs(&self, flow: Option<FlowId>, before: Option<RunId>, limit: u32) -> StoreResult<'_, Vec<RunRecord>> {
        Box::pin(self.reads.runs(flow, before, limit))
    }

    fn runs_by_agent(&self, agent: String, before: Option<RunId>, limit: u32) -> StoreResult<'_, Vec<RunRecord>> {
        Box::pin(self.reads.runs_by_agent(agent, before, limit))
    }

    fn runs_of_pipeline(&self, name: String, flows: u32, limit: u32) -> StoreResult<'_, Vec<RunRecord>> {
        Box::pin(async move { self.reads.runs_of_pipeline(&name, flows, limit).await })
    }

    fn run(&self, id: RunId) -> StoreResult<'_, Option<RunRecord>> {
        Box::pin(self.reads.run(id))
    }

    fn requests(&self, filter: RequestFilter, limit: u32) -> StoreResult<'_, Vec<RequestRecord>> {
        Box::pin(self.reads.requests(filter, limit))
    }

    fn request(&self, id: RequestId) -> StoreResult<'_, Option<RequestRecord>> {
        Box::pin(self.reads.request(id))
    }

    fn answers(&self) -> StoreResult<'_, Vec<AnswerCounts>> {
        Box::pin(self.reads.answers())
    }

    fn pipeline(&self, hash: ContentHash) -> StoreResult<'_, Option<(Pipeline, String)>> {
        Box::pin(async move { self.reads.pipeline(&hash).await })
    }

    fn events(&self, flow: Option<FlowId>, after: u64, limit: u32) -> StoreResult<'_, Vec<Event>> {
        Box::pin(self.reads.events(flow, after, limit))
    }

    fn consumer_cursor(&self, name: &'static str) -> StoreResult<'_, u64> {
        Box::pin(self.reads.consumer_cursor(name))
    }

    fn ids_ending(&self, suffix: String, limit: u32) -> StoreResult<'_, Vec<AnyId>> {
        Box::pin(async move { self.reads.ids_ending(&suffix, limit).await })
    }

    fn instances_open(&self) -> StoreResult<'_, Vec<Instance>> {
        Box::pin(self.reads.instances_open())
    }

    fn totals(&self) -> StoreResult<'_, Totals> {
        Box::pin(self.reads.totals())
    }
}
