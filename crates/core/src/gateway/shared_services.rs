//! State that all gateways share, whatever their configuration.

use std::sync::Arc;

use crate::backend::Pool;
use crate::gateway::approvals::ApprovalQueue;
use crate::gateway::embedding::EmbeddingModels;
use crate::gateway::limits::Limiters;
use crate::gateway::response_cache::ResponseCaches;
use crate::state::StateStore;

pub(crate) struct SharedServices {
    pub(crate) pool: Arc<Pool>,
    pub(crate) limiters: Limiters,
    pub(crate) stores: ResponseCaches,
    pub(crate) store: Arc<dyn StateStore>,
    pub(crate) embeddings: EmbeddingModels,
    pub(crate) approvals: Arc<ApprovalQueue>,
}
