import torch, transformers as T, os
os.environ["HF_HUB_OFFLINE"]="1"
ids=lambda b=2,n=12,v=90: torch.randint(3,v,(b,n))
def txt(cfg,cls,extra=None,**kw):
    def make():
        torch.manual_seed(0)
        m=cls(cfg()).eval()
        torch.manual_seed(1)
        i=dict(input_ids=ids(),attention_mask=torch.ones(2,12,dtype=torch.int64))
        i["attention_mask"][1,9:]=0
        if extra: i.update(extra())
        i.update(kw)
        return m,i
    return make
C=dict(vocab_size=99,hidden_size=32,num_hidden_layers=2,num_attention_heads=4,intermediate_size=64,max_position_embeddings=64)
nc=dict(use_cache=False)
def vis(cfg,cls,size=32,name="pixel_values"):
    def make():
        torch.manual_seed(0); m=cls(cfg()).eval(); torch.manual_seed(1)
        return m,{name:torch.randn(2,3,size,size)}
    return make
def wav():
    torch.manual_seed(0)
    m=T.Wav2Vec2Model(T.Wav2Vec2Config(hidden_size=32,num_hidden_layers=2,num_attention_heads=4,intermediate_size=64,conv_dim=(32,32),conv_stride=(5,2),conv_kernel=(10,3),num_feat_extract_layers=2,num_conv_pos_embeddings=16,num_conv_pos_embedding_groups=2)).eval()
    return m,dict(input_values=torch.randn(2,800))
def whisper():
    torch.manual_seed(0)
    m=T.WhisperModel(T.WhisperConfig(vocab_size=99,d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,num_mel_bins=16,max_source_positions=32,max_target_positions=32,pad_token_id=0,bos_token_id=1,eos_token_id=2,decoder_start_token_id=1)).eval()
    return m,dict(input_features=torch.randn(2,16,64),decoder_input_ids=ids(2,8),use_cache=False)
def t5():
    torch.manual_seed(0)
    m=T.T5ForConditionalGeneration(T.T5Config(vocab_size=99,d_model=32,d_kv=8,d_ff=64,num_layers=2,num_heads=4)).eval()
    return m,dict(input_ids=ids(),decoder_input_ids=ids(2,8),use_cache=False)
def bart():
    torch.manual_seed(0)
    m=T.BartForConditionalGeneration(T.BartConfig(vocab_size=99,d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,max_position_embeddings=64)).eval()
    return m,dict(input_ids=ids(),decoder_input_ids=ids(2,8),use_cache=False)
def clip():
    torch.manual_seed(0)
    t=dict(vocab_size=99,hidden_size=32,num_hidden_layers=2,num_attention_heads=4,intermediate_size=64,max_position_embeddings=32)
    v=dict(hidden_size=32,num_hidden_layers=2,num_attention_heads=4,intermediate_size=64,image_size=32,patch_size=8)
    m=T.CLIPModel(T.CLIPConfig(text_config=t,vision_config=v,projection_dim=16)).eval()
    return m,dict(input_ids=ids(),pixel_values=torch.randn(2,3,32,32))
def detr():
    torch.manual_seed(0)
    bb=T.ResNetConfig(embedding_size=16,hidden_sizes=[16,32],depths=[1,1],layer_type="basic",out_features=["stage2"])
    m=T.DetrForObjectDetection(T.DetrConfig(backbone_config=bb,use_timm_backbone=False,use_pretrained_backbone=False,backbone=None,d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,num_queries=10)).eval()
    return m,dict(pixel_values=torch.randn(2,3,64,64),pixel_mask=torch.ones(2,64,64,dtype=torch.int64))
ALL=dict(
 bert=txt(lambda:T.BertConfig(**C),T.BertModel), roberta=txt(lambda:T.RobertaConfig(**C),T.RobertaModel),
 distilbert=txt(lambda:T.DistilBertConfig(vocab_size=99,dim=32,n_layers=2,n_heads=4,hidden_dim=64,max_position_embeddings=64),T.DistilBertModel),
 albert=txt(lambda:T.AlbertConfig(embedding_size=16,**C),T.AlbertModel), electra=txt(lambda:T.ElectraConfig(embedding_size=16,**C),T.ElectraModel),
 deberta_v2=txt(lambda:T.DebertaV2Config(relative_attention=True,pos_att_type=["p2c","c2p"],position_buckets=8,**C),T.DebertaV2Model),
 gpt2=txt(lambda:T.GPT2Config(vocab_size=99,n_embd=32,n_layer=2,n_head=4,n_positions=64),T.GPT2LMHeadModel,use_cache=False),
 gpt_neox=txt(lambda:T.GPTNeoXConfig(**C),T.GPTNeoXForCausalLM,use_cache=False),
 opt=txt(lambda:T.OPTConfig(vocab_size=99,hidden_size=32,num_hidden_layers=2,num_attention_heads=4,ffn_dim=64,max_position_embeddings=64,word_embed_proj_dim=32),T.OPTForCausalLM,use_cache=False),
 llama=txt(lambda:T.LlamaConfig(num_key_value_heads=2,**C),T.LlamaForCausalLM,use_cache=False),
 mistral=txt(lambda:T.MistralConfig(num_key_value_heads=2,sliding_window=6,**C),T.MistralForCausalLM,use_cache=False),
 qwen2=txt(lambda:T.Qwen2Config(num_key_value_heads=2,**C),T.Qwen2ForCausalLM,use_cache=False),
 qwen3=txt(lambda:T.Qwen3Config(num_key_value_heads=2,head_dim=8,**C),T.Qwen3ForCausalLM,use_cache=False),
 gemma2=txt(lambda:T.Gemma2Config(num_key_value_heads=2,head_dim=8,**C),T.Gemma2ForCausalLM,use_cache=False),
 phi3=txt(lambda:T.Phi3Config(num_key_value_heads=2,pad_token_id=0,**C),T.Phi3ForCausalLM,use_cache=False),
 mixtral=txt(lambda:T.MixtralConfig(num_key_value_heads=2,num_local_experts=4,**C),T.MixtralForCausalLM,use_cache=False),
 mamba=txt(lambda:T.MambaConfig(vocab_size=99,hidden_size=32,num_hidden_layers=2,state_size=8),T.MambaForCausalLM,use_cache=False),
 t5=t5,bart=bart,whisper=whisper,wav2vec2=wav,
 vit=vis(lambda:T.ViTConfig(hidden_size=32,num_hidden_layers=2,num_attention_heads=4,intermediate_size=64,image_size=32,patch_size=8),T.ViTModel),
 swin=vis(lambda:T.SwinConfig(image_size=32,patch_size=2,embed_dim=16,depths=[2,2],num_heads=[2,4],window_size=4),T.SwinModel),
 clip=clip,
 convnext=vis(lambda:T.ConvNextConfig(hidden_sizes=[8,16,32,32],depths=[1,1,2,1]),T.ConvNextModel,64),
 segformer=vis(lambda:T.SegformerConfig(hidden_sizes=[8,16,16,32],depths=[1,1,1,1],num_attention_heads=[1,2,2,4],decoder_hidden_size=32),T.SegformerForSemanticSegmentation,64),
 detr=detr)
